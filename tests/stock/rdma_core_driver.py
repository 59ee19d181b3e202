"""Runs rdma-core's own Python tests, as they are, and tells of each what came of it.

usage: rdma_core_driver.py TESTS DEVICE [--list] [ID...]

TESTS is rdma-core's folder "tests". Standard output gets one line of JSON when a test begins and
one when it has ended; whatever the tests print goes to standard error. Without an ID: all of them.
It is the tests' own run_tests.py but for this report, by which rdma_core.py also sees which test
killed it.
"""
import importlib.machinery
import json
import os
import sys
import unittest

report = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)


def tell(test, result, reason=""):
    report.write(json.dumps({"id": test, "result": result, "reason": reason}) + "\n")


def name_of(test):
    return test.id().removeprefix("tests.")


class Result(unittest.TestResult):
    """A test that fails in a subtest or in tearDown too is told once, as the worst of it."""

    def startTest(self, test):
        super().startTest(test)
        self.told = ("passed", "")
        tell(name_of(test), "begun")

    def stopTest(self, test):
        super().stopTest(test)
        tell(name_of(test), *self.told)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.told = ("skipped", reason)

    def failed(self, error):
        text = str(error[1]) or error[0].__name__
        self.told = ("failed", text.splitlines()[0][:200])

    def addError(self, test, err):
        super().addError(test, err)
        self.failed(err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.failed(err)


def flat(suite):
    for entry in suite:
        if isinstance(entry, unittest.TestSuite):
            yield from flat(entry)
        else:
            yield entry


def main():
    folder, device, *chosen = sys.argv[1:]
    sys.path[0] = folder
    sys.argv[1:] = ["--dev", device]
    from args_parser import parser  # the tests' own
    loader = importlib.machinery.SourceFileLoader("tests", os.path.join(folder, "__init__.py"))
    tests = loader.load_module()
    parser.parse_args()
    found = {name_of(test): test
             for test in flat(unittest.defaultTestLoader.loadTestsFromModule(tests))}
    if chosen == ["--list"]:
        for name in sorted(found):
            tell(name, "listed")
        return
    result = Result()
    for name in chosen or sorted(found):
        unittest.TestSuite([found[name]]).run(result)


main()
report.flush()
os._exit(0)  # what pyverbs does at the interpreter's end is not judged
