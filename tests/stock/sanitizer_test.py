#!/usr/bin/env python3
"""Which reports sanitizer.py lets pass: texts as the runtimes write them, and the verdict."""
import sys

import sanitizer

WEFT, PROGRAM, LIBC = "/b/lib/libibverbs.so.1", "/usr/bin/fio", "/lib/libc.so.6"
RUNTIME = "/usr/lib/x86_64-linux-gnu/libasan.so.8.0.0"


def stack(*frames):
    return "".join(f"    #{number} {function} ({module}+0x1f) a.cc:7\n"
                   for number, (function, module) in enumerate(frames))


def leaks(*stacks, kind="Direct", end="SUMMARY: AddressSanitizer: 40 byte(s) leaked\n"):
    head = "\n" + "=" * 65 + "\n==1==ERROR: LeakSanitizer: detected memory leaks\n\n"
    return head + "".join(f"{kind} leak of 40 byte(s) in 1 object(s) allocated from:\n{text}\n"
                          for text in stacks) + end


def race(*stacks):
    line = "=" * 18 + "\n"
    return (line + "WARNING: ThreadSanitizer: data race (pid=1)\n  Write of size 8 by thread T1:\n"
            + "\n  Previous read of size 8 by main thread:\n".join(stacks)
            + f"\nSUMMARY: ThreadSanitizer: data race\n{line}"
            + "ThreadSanitizer: reported 1 warnings\n")


CALLOC, MAIN = ("calloc", RUNTIME), ("main", PROGRAM)
NEW = ("operator new(unsigned long)", RUNTIME)
FOREIGN = stack(CALLOC, ("strdup", LIBC), MAIN)
WEFT_OWN = stack(NEW, ("weft::Rnic::f(std::function<void (int)>)", WEFT), ("listen", WEFT), MAIN)
GIVEN = stack(NEW, ("make", WEFT), ("current_alloc_pd", WEFT), MAIN)
STRANGER = stack(CALLOC, ("f", "/usr/bin/stranger"), ("__libc_start_main", LIBC))
UNLOADED = stack(CALLOC).rstrip("\n") + "\n    #1 <null> (<null>+0x0) <null>\n" + stack(MAIN)
STARTING = stack(CALLOC, ("pthread_getattr_np", LIBC),
                 ("__sanitizer::GetThreadStackAndTls(bool, unsigned long*)", RUNTIME),
                 ("__asan::AsanThread::ThreadStart(unsigned long long)", RUNTIME))
BODY = stack(NEW, ("weft::f()", WEFT),
             ("__asan::AsanThread::ThreadStart(unsigned long long)", RUNTIME))
REPLACED = stack(CALLOC, ("<null>", "/lib/libX11.so.6"), MAIN)
OURS_SINCE = stack(CALLOC, ("<null>", WEFT), MAIN)
SEMAPHORE = stack(("pthread_mutex_destroy", RUNTIME), ("fio_sem_remove", PROGRAM))
LOST = "    [failed to restore the stack]\n"
UNSURE = "==7==Running thread 5 was not suspended. False leaks are possible.\n"
ERROR = ("=" * 65 + "\n==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\n"
         + "READ of size 1\n")

# (what it is, the report, how many of its findings fail a case)
TABLE = [
    ("no report at all", "", 0),
    ("a leak of a listed program", leaks(FOREIGN), 0),
    ("a leak of a program that is not listed", leaks(STRANGER), 1),
    ("a leak in a plug-in that is gone, called by a listed program", leaks(UNLOADED), 0),
    ("the same where another library was loaded since", leaks(REPLACED), 0),
    ("the same where ours was", leaks(OURS_SINCE), 0),
    ("an error there", ERROR + OURS_SINCE, 1),
    ("what the runtime holds while a thread starts", leaks(STARTING), 0),
    ("a leak of weft's, under a listed program", leaks(WEFT_OWN), 1),
    ("a leak of weft's in a thread of its own", leaks(BODY), 1),
    ("one by a child whose parent's threads the runtime still counts",
     UNSURE + UNSURE + leaks(WEFT_OWN), 0),
    ("what else such a child does", UNSURE + ERROR + WEFT_OWN, 1),
    ("an indirect one too", leaks(WEFT_OWN, kind="Indirect"), 1),
    ("what weft gave and a listed program kept", leaks(GIVEN), 0),
    ("what weft gave and another program kept", leaks(GIVEN.replace("fio", "stranger")), 1),
    ("one bad leak among listed ones", leaks(FOREIGN, WEFT_OWN, GIVEN), 1),
    ("leaks of which the end is missing: the process was killed", leaks(WEFT_OWN, end=""), 0),
    ("an error in a program of which leaks are listed", ERROR + FOREIGN, 1),
    ("an error in weft", ERROR + WEFT_OWN, 1),
    ("an error on memory that weft gave", ERROR + GIVEN, 1),
    ("an error without a stack", ERROR, 1),
    ("an error, and leaks behind it", ERROR + WEFT_OWN + leaks(FOREIGN), 1),
    ("a runtime that could not work", "==1==LeakSanitizer has encountered an error\n", 1),
    ("undefined behaviour", "a.cc:7:3: runtime error: misaligned\n" + WEFT_OWN, 1),
    ("a race of a program that is not listed", race(FOREIGN, FOREIGN), 1),
    ("a listed race of a program", race(SEMAPHORE, FOREIGN), 0),
    ("the same, with a stack that is lost", race(SEMAPHORE, LOST), 0),
    ("the same, with weft in the other stack", race(SEMAPHORE, WEFT_OWN), 1),
    ("a leak in the function of a listed race", leaks(SEMAPHORE.replace("fio+", "other+")), 1),
    ("a race between weft and a program", race(FOREIGN, WEFT_OWN), 1),
    ("a race of weft's", race(WEFT_OWN, WEFT_OWN), 1),
    ("two races", race(WEFT_OWN, WEFT_OWN) + race(WEFT_OWN, WEFT_OWN), 2),
]

listed = sanitizer.Listed()
failures = []
for what, text, wanted in TABLE:
    found = sum(not listed.has(record) for record in sanitizer.records(text))
    if found != wanted:
        failures.append(f"{what}: {found} findings that fail a case, wanted {wanted}")
print("\n".join(failures) or f"{len(TABLE)} reports judged as they should be")
sys.exit(1 if failures else 0)
