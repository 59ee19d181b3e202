/* One-sided operations on a window: puts and gets between fences, then a counter and a lock word at
 * rank 0 that all ranks change at once. Prints "window N ok" at rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBlock = 20000, kTurns = 50 };

static void fail(const char* what, int rank, long seen, long wanted) {
  printf("window: %s, rank %d, %ld instead of %ld\n", what, rank, seen, wanted);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Every rank puts a block into every rank, then gets its neighbour's whole window. */
static void exchange(int rank, int ranks) {
  long* shared;
  MPI_Win window;
  MPI_Win_allocate((MPI_Aint)ranks * kBlock * (MPI_Aint)sizeof *shared, sizeof *shared,
                   MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &window);
  long* mine = malloc(kBlock * sizeof *mine);
  long* theirs = malloc((size_t)ranks * kBlock * sizeof *theirs);
  for (int i = 0; i < kBlock; ++i) mine[i] = rank * 1000000L + i;
  MPI_Win_fence(0, window);
  for (int to = 0; to < ranks; ++to) {
    MPI_Put(mine, kBlock, MPI_LONG, to, (MPI_Aint)rank * kBlock, kBlock, MPI_LONG, window);
  }
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks * kBlock; ++i) {
    const long wanted = i / kBlock * 1000000L + i % kBlock;
    if (shared[i] != wanted) fail("put", rank, shared[i], wanted);
  }
  MPI_Win_fence(0, window);
  MPI_Get(theirs, ranks * kBlock, MPI_LONG, (rank + 1) % ranks, 0, ranks * kBlock, MPI_LONG,
          window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < ranks * kBlock; ++i) {
    const long wanted = i / kBlock * 1000000L + i % kBlock;
    if (theirs[i] != wanted) fail("get", rank, theirs[i], wanted);
  }
  free(mine), free(theirs);
  MPI_Win_free(&window);
}

/* shared[0]: how many fetch-and-adds; shared[1]: a lock, by compare-and-swap; shared[2]: what is
 * done under the lock, by a get and a put that would lose numbers without it; shared[3]: a sum. */
static void contend(int rank, int ranks) {
  long* shared;
  MPI_Win window;
  const long one = 1, zero = 0;
  long seen = 0;
  MPI_Win_allocate(4 * sizeof *shared, sizeof *shared, MPI_INFO_NULL, MPI_COMM_WORLD, &shared,
                   &window);
  for (int i = 0; i < 4; ++i) shared[i] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);
  long last = -1;
  for (int turn = 0; turn < kTurns; ++turn) {
    MPI_Fetch_and_op(&one, &seen, MPI_LONG, 0, 0, MPI_SUM, window);
    MPI_Accumulate(&one, 1, MPI_LONG, 0, 3, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_flush(0, window);
    if (seen <= last) fail("fetch-and-add went back", rank, seen, last);
    last = seen;
  }
  for (int turn = 0; turn < kTurns / 10; ++turn) {
    do {
      MPI_Compare_and_swap(&one, &zero, &seen, MPI_LONG, 0, 1, window);
      MPI_Win_flush(0, window);
    } while (seen != 0);
    MPI_Get(&seen, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    ++seen;
    MPI_Put(&seen, 1, MPI_LONG, 0, 2, 1, MPI_LONG, window);
    MPI_Win_flush(0, window);
    MPI_Accumulate(&zero, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_REPLACE, window);
    MPI_Win_flush(0, window);
  }
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    const long wanted[] = {(long)ranks * kTurns, 0, (long)ranks * (kTurns / 10),
                           (long)ranks * kTurns};
    for (int i = 0; i < 4; ++i) {
      if (shared[i] != wanted[i]) fail("a number all ranks changed", i, shared[i], wanted[i]);
    }
    MPI_Win_unlock(0, window);
  }
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  exchange(rank, ranks);
  contend(rank, ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("window %d ok\n", ranks);
  MPI_Finalize();
  return 0;
}
