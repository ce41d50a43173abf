"""Writes the texts of the stubs as a C++ header, so that help() shows what editors show:

    help_texts.py _rapt.pyi texts.hpp

A function f gives f_signature and f_text, a class C gives C_text, its method m C_m_signature and
C_m_text, its __init__ those of C_init."""

import ast
import inspect
import pathlib
import sys


def literal(text):
    return f'R"help({text})help"'


def lines(node, prefix=""):
    name = prefix + node.name.strip("_")
    text = inspect.cleandoc(ast.get_docstring(node) or "")
    yield f"inline constexpr const char* {name}_text = {literal(text)};"
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            # Properties have neither here.
            if isinstance(member, ast.FunctionDef) and not member.decorator_list:
                if member.name == "__init__" or not member.name.startswith("__"):
                    yield from lines(member, name + "_")
        return
    node.body = []
    signature = ast.unparse(node).rstrip(":")
    yield f"inline constexpr const char* {name}_signature = {literal(signature)};"


def header(stub):
    nodes = ast.parse(stub).body
    kinds = (ast.FunctionDef, ast.ClassDef)
    body = [line for node in nodes if isinstance(node, kinds) for line in lines(node)]
    return "\n".join(["#pragma once", "namespace rapt_python::help {", *body, "}", ""])


if __name__ == "__main__":
    source, target = map(pathlib.Path, sys.argv[1:])
    target.write_text(header(source.read_text()))
