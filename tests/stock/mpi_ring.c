/* A token travels round the ranks, in messages of every size class of an MPI: inline, eager,
 * rendezvous. Each rank checks all octets and adds itself. Prints "ring N ok" at rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const int kSizes[] = {0, 1, 64, 1000, 4096, 16384, 65537, 1 << 20};
enum { kRounds = 3, kLargest = 1 << 20 };

static unsigned char octet(int size, int round, int at) {
  return (unsigned char)(size * 7 + round * 31 + at);
}

static void fail(const char* what, int rank, int size) {
  printf("ring: %s, rank %d, %d octets\n", what, rank, size);
  fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  int rank, ranks;
  unsigned char* data = malloc(kLargest);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  for (unsigned i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    const int size = kSizes[i];
    for (int round = 0; round < kRounds; ++round) {
      MPI_Status status;
      int count;
      if (rank == 0) {
        for (int at = 0; at < size; ++at) data[at] = octet(size, round, at);
        MPI_Send(data, size, MPI_UNSIGNED_CHAR, next, round, MPI_COMM_WORLD);
      }
      MPI_Recv(data, kLargest, MPI_UNSIGNED_CHAR, previous, round, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_UNSIGNED_CHAR, &count);
      if (count != size) fail("wrong length", rank, size);
      /* Each rank that passed it on has added 1; rank 0 gets what all the others added. */
      const int added = rank == 0 ? ranks - 1 : rank - 1;
      for (int at = 0; at < size; ++at) {
        if (data[at] != (unsigned char)(octet(size, round, at) + added)) {
          fail("wrong octet", rank, size);
        }
        ++data[at];
      }
      if (rank != 0) MPI_Send(data, size, MPI_UNSIGNED_CHAR, next, round, MPI_COMM_WORLD);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("ring %d ok\n", ranks);
  free(data);
  MPI_Finalize();
  return 0;
}
