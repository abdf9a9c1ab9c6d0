"""The JSON Schema for editors, held to the corpus, the rejected files and the program's own words.

Usage: scenario_schema_test.py SOURCE_DIR DCPSIM
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import yaml

SOURCE, DCPSIM = pathlib.Path(sys.argv[1]), sys.argv[2]
SCENARIOS = SOURCE / "scenarios"

# Rejected files whose fault is not one of structure: how the YAML is written, which a parser has
# resolved by then, or a rule between places of the file.
WRITTEN_ODDLY = {
    "bool-yes",
    "number-hexadecimal",
    "number-octal",
    "number-with-fraction",
    "text-no-is-a-boolean",
}
BETWEEN_PLACES = {
    "batch-local-lens-for-too-few-ranks",
    "data-given-for-too-few-ranks",
    "data-given-ragged",
    "expect-same-bits-as-itself",
    "expect-same-bits-as-later-step",
    "expect-strategy-that-does-not-run",
    "expect-together-of-two-minds",
    "expect-together-of-two-minds-on-empty-rows",
    "expect-values-beside-a-failure",
    "expect-values-beside-a-failure-of-another-part",
    "expect-values-beside-an-error",
    "expect-values-of-a-step-that-computes-nothing",
    "expect-values-of-a-strategy-beside-an-error",
    "model-kv-heads-do-not-divide",
    "model-padded-heads-too-few",
    "step-name-twice",
    "step-rank-outside-world",
    "step-stall-until-nobody",
    "step-unknown-batch",
    "step-unknown-buffer",
    "tensor-parallel-size-splits-a-head",
}


def with_text_keys(node):
    """JSON has no other keys; YAML has numbers, as in `out: {0: 1.5}`."""
    if isinstance(node, dict):
        return {str(key): with_text_keys(value) for key, value in node.items()}
    if isinstance(node, list):
        return [with_text_keys(item) for item in node]
    return node


def load(path):
    return with_text_keys(yaml.safe_load(path.read_text(encoding="utf-8")))


class ScenarioSchema(unittest.TestCase):
    def setUp(self):
        self.schema = json.loads((SOURCE / "docs/scenario.schema.json").read_text(encoding="utf-8"))
        jsonschema.Draft7Validator.check_schema(self.schema)
        self.validator = jsonschema.Draft7Validator(self.schema)

    def test_accepts_every_scenario(self):
        files = [f for f in SCENARIOS.rglob("*.yaml") if f.parent.name != "rejected"]
        self.assertGreater(len(files), 40)
        for file in files:
            with self.subTest(file=file):
                self.assertEqual([e.message for e in self.validator.iter_errors(load(file))], [])

    def test_refuses_rejected_files_whose_fault_is_one_of_structure(self):
        files = [
            f
            for f in (SCENARIOS / "rejected").glob("*.yaml")
            if not f.stem.startswith("syntax-") and f.stem not in WRITTEN_ODDLY
        ]
        self.assertGreater(len(files), 40)
        for file in files:
            with self.subTest(file=file):
                is_valid = self.validator.is_valid(load(file))
                self.assertEqual(is_valid, file.stem in BETWEEN_PLACES)

    def test_knows_the_words_of_the_program(self):
        with tempfile.NamedTemporaryFile() as report:
            subprocess.run(
                [DCPSIM, "list", "--json", report.name], check=True, stdout=subprocess.DEVNULL
            )
            sections = json.load(report)
        words = {
            title: [entry["name"] for entry in entries]
            for title, entries in sections.items()
            if isinstance(entries, list)
        }
        definitions = self.schema["definitions"]
        step = definitions["step"]["properties"]
        expect = definitions["expect"]["properties"]
        self.assertCountEqual(words["steps"], set(step) - {"name", "rank", "expect"})
        self.assertCountEqual(words["set"], step["set"]["properties"])
        self.assertCountEqual(words["errors"], expect["error"]["enum"])
        for kinds in ("hazards", "failures"):
            self.assertCountEqual(words[kinds], expect[kinds]["items"]["anyOf"][0]["enum"])
        self.assertCountEqual(words["models"], definitions["model"]["properties"]["extends"]["enum"])
        known = expect["by_strategy"]["properties"]
        self.assertLessEqual(set(words["strategies"]), set(known))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
