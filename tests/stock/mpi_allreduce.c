/* Sums and maxima over all ranks, of vectors from one number to half a MiB; every rank checks every
 * element. Prints "allreduce N ok" at rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const int kCounts[] = {1, 3, 100, 5000, 65536};
enum { kMost = 65536, kRounds = 3 };

static long element(int rank, int round, int at) {
  return (long)(rank + 1) * 1000003 + (long)round * 101 + at * (rank % 2 == 0 ? 1L : -1L);
}

static void fail(const char* what, int rank, int count, int at) {
  printf("allreduce: %s, rank %d, element %d of %d\n", what, rank, at, count);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  int rank, ranks;
  long* mine = malloc(kMost * sizeof *mine);
  long* sum = malloc(kMost * sizeof *sum);
  long* most = malloc(kMost * sizeof *most);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (unsigned i = 0; i < sizeof kCounts / sizeof *kCounts; ++i) {
    for (int round = 0; round < kRounds; ++round) {
      const int count = kCounts[i];
      for (int at = 0; at < count; ++at) mine[at] = element(rank, round, at);
      MPI_Allreduce(mine, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
      MPI_Allreduce(mine, most, count, MPI_LONG, MPI_MAX, MPI_COMM_WORLD);
      for (int at = 0; at < count; ++at) {
        long wanted_sum = 0, wanted_most = element(0, round, at);
        for (int other = 0; other < ranks; ++other) {
          const long theirs = element(other, round, at);
          wanted_sum += theirs;
          if (theirs > wanted_most) wanted_most = theirs;
        }
        if (sum[at] != wanted_sum) fail("wrong sum", rank, count, at);
        if (most[at] != wanted_most) fail("wrong maximum", rank, count, at);
      }
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("allreduce %d ok\n", ranks);
  free(mine), free(sum), free(most);
  MPI_Finalize();
  return 0;
}
