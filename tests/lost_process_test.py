"""Processes of one run of which one is killed, stopped or throws: the others end within a bound, with
exit code 1, and say who it was. One that is only slow is waited for."""

import concurrent.futures
import subprocess
import sys
import time

mpirun, program = sys.argv[1:]

# What happens to whom, exit code, words of the output, most seconds
CASES = [
    ("none", 0, 0, ["all rounds are done"], 30),
    ("slow", 1, 0, ["all rounds are done"], 50),  # no one is lost
    ("throw", 1, 1, ["deadlock: it waits for its peers; ranks 0, 2 have nothing left to do"], 30),
    ("stop", 1, 1, ["rank_lost: rank 1 does not answer", "waited for"], 50),
    ("stop", 0, 1, ["rank_lost: rank 0 does not answer"], 50),  # the one that reports
    ("kill", 2, None, ["rank 2", "signal 9"], 40),  # mpirun ends the others and says why
]


def run(case):
    how, victim, exit_code, words, most_seconds = case
    begin = time.monotonic()
    done = subprocess.run(
        [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "3", program, str(victim), how],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    seconds = time.monotonic() - begin
    wrong = [f"'{word}' is missing" for word in words if word not in done.stdout]
    if exit_code is not None and done.returncode != exit_code or exit_code is None and done.returncode == 0:
        wrong.append(f"exit code {done.returncode}")
    if seconds > most_seconds:
        wrong.append(f"{seconds:.1f} s")
    if done.stdout.count("rank_lost") > 1:
        wrong.append("more than one report")
    return [f"{how} {victim}: {', '.join(wrong)}\n{done.stdout}"] if wrong else []


with concurrent.futures.ThreadPoolExecutor() as pool:
    problems = [problem for found in pool.map(run, CASES) for problem in found]
print("\n".join(problems))
sys.exit(1 if problems else 0)
