// How many blocks of a GPU may wait for other ranks at the same time. Whoever waits holds its
// place, so there must be places for all who wait for each other, and more for those they wait for.
#pragma once

namespace dcp {

// Of an exchange of one ubatch on one rank, where so many ranks share a GPU, each with so many
// ubatches. StepError capacity where not every one of them can have a block.
int waiting_blocks(int num_processors, int num_ranks, int num_ubatches);

}  // namespace dcp
