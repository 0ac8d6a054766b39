#!/usr/bin/env python3
"""Holds JUnit XML files against the rules that its readers agree on.

There is no one schema: these are the rules that Ant's, Maven Surefire's and Jenkins'
have in common, and that GitLab and GitHub readers rely on. Prints what is wrong with
which file, and ends with 1 if anything is.
"""
import re
import sys
import xml.etree.ElementTree as ElementTree

SUITES = {"name", "tests", "failures", "errors", "disabled", "time"}
SUITE = SUITES | {"skipped", "timestamp", "hostname", "id", "package"}
CASE = {"name", "classname", "time", "assertions", "status", "file", "line"}
RESULT = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def seconds(element):
    text = element.get("time", "0")
    return [] if re.fullmatch(r"\d+(\.\d+)?", text) else [f"{element.tag} time {text!r}"]


def attributes(element, allowed, required):
    given = set(element.attrib)
    wrong = [f"{element.tag} has {name}" for name in given - allowed]
    wrong += [f"{element.tag} has no {name}" for name in required - given]
    # What may be left out must say something.
    return wrong + [f"{element.tag} {name} is empty" for name, text in element.items() if not text.strip()]


def order(element, *groups):
    places = [next((at for at, group in enumerate(groups) if child.tag in group), None) for child in element]
    if None in places:
        return [f"{element.tag} holds {[child.tag for child in element][places.index(None)]}"]
    return [] if places == sorted(places) else [f"children of {element.tag} are out of order"]


def counts(element, found):
    claimed = {name: element.get(name) for name in found if name in element.attrib}
    return [f"{element.tag} {name} is {claimed[name]}, there are {found[name]}"
            for name in claimed if claimed[name] != str(found[name])]


def of_cases(cases):
    found = {count: sum(case.find(tag) is not None for case in cases) for tag, count in RESULT.items()}
    return {"tests": len(cases), **found}


def check_case(case):
    wrong = attributes(case, CASE, {"name", "classname"}) + seconds(case)
    wrong += order(case, set(RESULT), {"system-out"}, {"system-err"})
    results = [child for child in case if child.tag in RESULT]
    if len(results) > 1:
        wrong.append(f"{case.get('name')} ended in {len(results)} ways")
    for result in results:
        needed = {"message"} if result.tag == "skipped" else {"type", "message"}
        wrong += attributes(result, {"type", "message"}, needed)
    return wrong


def check_suite(suite):
    wrong = attributes(suite, SUITE, {"name", "tests", "failures", "errors"}) + seconds(suite)
    wrong += order(suite, {"properties"}, {"testcase"}, {"system-out"}, {"system-err"})
    stamp = suite.get("timestamp")
    if stamp is not None and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", stamp):
        wrong.append(f"timestamp {stamp!r}")
    cases = suite.findall("testcase")
    wrong += counts(suite, of_cases(cases))
    names = [(case.get("classname"), case.get("name")) for case in cases]
    wrong += [f"{name} is there twice" for name in {name for name in names if names.count(name) > 1}]
    return wrong + [one for case in cases for one in check_case(case)]


def check(path):
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        return [f"is no XML: {error}"]
    if root.tag != "testsuites":
        return [f"the root is {root.tag}"]
    wrong = attributes(root, SUITES, set()) + seconds(root) + order(root, {"testsuite"})
    wrong += counts(root, of_cases(root.findall("testsuite/testcase")))
    return wrong + [one for suite in root.findall("testsuite") for one in check_suite(suite)]


if __name__ == "__main__":
    problems = [f"{path}: {wrong}" for path in sys.argv[1:] for wrong in check(path)]
    print("\n".join(problems))
    sys.exit(bool(problems))
