"""`_native.pyi` against the module."""

import ast
import pathlib
import unittest

import tcpxctl
from tcpxctl import _native


class Stub(unittest.TestCase):
    def test_names(self):
        text = pathlib.Path(tcpxctl.__file__).with_name("_native.pyi").read_text()
        declared, classes = set(), {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = {one.name for one in node.body if isinstance(one, ast.FunctionDef)} - {"__new__"}
            elif isinstance(node, ast.AnnAssign):
                declared.add(node.target.id)
        public = {name for name in vars(_native) if not name.startswith("__")} | {"__version__"}
        self.assertEqual(declared | classes.keys(), public)
        for name, members in classes.items():
            there = {member for member in vars(getattr(_native, name)) if not member.startswith("__")}
            self.assertEqual(members, there, name)


if __name__ == "__main__":
    unittest.main()
