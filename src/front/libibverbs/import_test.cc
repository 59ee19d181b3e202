// Importing devices, PDs and regions within the process: who may destroy what, and when.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "front/testing/loopback_device.h"

namespace {

class Import : public ::testing::Test {
 protected:
  void SetUp() override {
    context = weft::front::testing::open_loopback();
    ASSERT_NE(context, nullptr);
    pd = ibv_alloc_pd(context);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    twin = ibv_import_device(::dup(context->cmd_fd));
    ASSERT_TRUE(pd != nullptr && mr != nullptr && twin != nullptr);
  }
  void TearDown() override {
    if (mr != nullptr) {
      EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    if (pd != nullptr) {
      EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    }
    for (ibv_context* one : {twin, context}) {
      if (one != nullptr) {
        EXPECT_EQ(ibv_close_device(one), 0);
      }
    }
  }
  template <typename Made>
  static int code_of(Made* made) {
    return made == nullptr ? errno : 0;
  }
  /// Is the number of a closed descriptor free?
  static bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

  std::uint8_t buffer[64] = {};
  ibv_context *context = nullptr, *twin = nullptr;
  ibv_pd* pd = nullptr;
  ibv_mr* mr = nullptr;
};

TEST_F(Import, ADescriptorLeadsToItsDevice) {
  EXPECT_EQ(twin->device, context->device);
  EXPECT_NE(twin->cmd_fd, context->cmd_fd);
  EXPECT_NE(twin->async_fd, context->async_fd) << "events of its own";
  ibv_device_attr attr;
  EXPECT_EQ(ibv_query_device(twin, &attr), 0);
  // Also by the import's, and after the first one was closed.
  ibv_context* third = ibv_import_device(::dup(twin->cmd_fd));
  ASSERT_NE(third, nullptr);
  ibv_pd* imported = ibv_import_pd(third, pd->handle);
  EXPECT_NE(imported, nullptr);
  ibv_unimport_pd(imported);
  EXPECT_EQ(ibv_close_device(third), 0);
}

TEST_F(Import, ClosingAContextClosesTheDescriptorItWasGiven) {
  const int fd = ::dup(context->cmd_fd);
  ibv_context* third = ibv_import_device(fd);
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(third->cmd_fd, fd);
  EXPECT_EQ(ibv_close_device(third), 0);
  EXPECT_FALSE(is_open(fd));
  // A context's own is not closed twice.
  third = ibv_import_device(context->cmd_fd);
  ASSERT_NE(third, nullptr);
  EXPECT_NE(third->cmd_fd, context->cmd_fd);
  EXPECT_EQ(ibv_close_device(third), 0);
  EXPECT_TRUE(is_open(context->cmd_fd));
}

TEST_F(Import, WhatIsNoContextOfThisProcessIsRefusedAndStaysTheCallers) {
  EXPECT_EQ(code_of(ibv_import_device(-1)), EBADF);
  const int other = ::memfd_create("other", MFD_CLOEXEC);
  EXPECT_EQ(code_of(ibv_import_device(other)), EOPNOTSUPP);
  EXPECT_TRUE(is_open(other));
  ::close(other);
  ibv_context* closed = weft::front::testing::open_loopback();
  ASSERT_NE(closed, nullptr);
  const int fd = ::dup(closed->cmd_fd);
  EXPECT_EQ(ibv_close_device(closed), 0);
  EXPECT_EQ(code_of(ibv_import_device(fd)), EOPNOTSUPP);
  ::close(fd);
  // A child has the descriptor, and not the device.
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = ibv_import_device(context->cmd_fd) == nullptr && errno == EOPNOTSUPP;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Import, HandlesAreOfOneOpeningOfTheDevice) {
  ibv_context* stranger = weft::front::testing::open_loopback();
  ASSERT_NE(stranger, nullptr);
  EXPECT_EQ(code_of(ibv_import_pd(stranger, pd->handle)), ENOENT);
  ibv_pd* own = ibv_alloc_pd(stranger);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(code_of(ibv_import_mr(own, mr->handle)), ENOENT);
  EXPECT_EQ(code_of(ibv_import_pd(twin, 0)), ENOENT);
  EXPECT_EQ(code_of(ibv_import_pd(twin, own->handle)), ENOENT);
  EXPECT_EQ(ibv_dealloc_pd(own), 0);
  EXPECT_EQ(ibv_close_device(stranger), 0);
  // A region belongs to its PD.
  ibv_pd* other = ibv_alloc_pd(twin);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(code_of(ibv_import_mr(other, mr->handle)), EINVAL);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
  EXPECT_EQ(code_of(ibv_import_dm(twin, 0)), EOPNOTSUPP) << "no device has memory";
}

TEST_F(Import, AnImportedRegionIsTheRegion) {
  ibv_pd* imported = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(imported, nullptr);
  EXPECT_EQ(imported->handle, pd->handle);
  ibv_mr* region = ibv_import_mr(imported, mr->handle);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(region->lkey, mr->lkey);
  EXPECT_EQ(region->rkey, mr->rkey);
  EXPECT_EQ(region->handle, mr->handle);
  EXPECT_EQ(region->length, sizeof buffer);
  EXPECT_EQ(region->addr, nullptr) << "not known, says the man page";
  EXPECT_EQ(region->pd, imported);
  // Changed by one, it is changed for the other.
  EXPECT_EQ(ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, buffer, 32, 0), 0);
  ibv_mr* again = ibv_import_mr(imported, mr->handle);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->length, 32u);
  ibv_unimport_mr(again);
  ibv_unimport_mr(region);
  ibv_unimport_pd(imported);
}

TEST_F(Import, UnimportingDestroysNothing) {
  ibv_pd* imported = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(imported, nullptr);
  ibv_mr* region = ibv_import_mr(imported, mr->handle);
  ASSERT_NE(region, nullptr);
  ibv_mr* own = ibv_reg_mr(imported, buffer, 8, 0);
  ASSERT_NE(own, nullptr);
  // In the wrong order, too: what points to the PD keeps it.
  ibv_unimport_pd(imported);
  ibv_unimport_mr(region);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY) << "a region made by way of the import";
  EXPECT_EQ(ibv_dereg_mr(own), 0);
  // And again.
  imported = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(imported, nullptr);
  ibv_unimport_pd(imported);
}

TEST_F(Import, AnyOfThemDestroysItForAll) {
  ibv_pd* imported = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(imported, nullptr);
  ibv_mr* region = ibv_import_mr(imported, mr->handle);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(imported), EBUSY) << "the region is there";
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dereg_mr(mr), EINVAL) << "it is gone";
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(code_of(ibv_import_mr(imported, mr->handle)), ENOENT);
  ibv_unimport_mr(mr);
  mr = nullptr;

  // The original PD goes while the import is there.
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
  pd = nullptr;
  ibv_pd* next = ibv_alloc_pd(context);  // it may get the number that is free now
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(code_of(ibv_reg_mr(imported, buffer, 8, 0)), EINVAL) << "of a PD that is no more";
  EXPECT_EQ(ibv_dealloc_pd(imported), EINVAL);
  ibv_unimport_pd(imported);
  EXPECT_EQ(ibv_dealloc_pd(next), 0);
}

TEST_F(Import, AParentDomainOfAnImportKeepsIt) {
  ibv_pd* imported = ibv_import_pd(twin, pd->handle);
  ASSERT_NE(imported, nullptr);
  ibv_parent_domain_init_attr attr = {};
  attr.pd = imported;
  ibv_pd* domain = ibv_alloc_parent_domain(twin, &attr);
  ASSERT_NE(domain, nullptr);
  ibv_unimport_pd(imported);
  ibv_unimport_pd(domain);  // it was not imported: nothing happens
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  mr = nullptr;
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  ibv_mr* own = ibv_reg_mr(domain, buffer, 8, 0);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(ibv_dereg_mr(own), 0);
  EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

}  // namespace
