#!/usr/bin/env python3
"""make_chat_cases.py FOLDER: renders every case of the chat templates in FOLDER again with Jinja2, set up as transformers
does it, and writes the texts and errors into the files. A new case needs only its inputs. Needs Jinja2 3.1."""

import datetime
import json
import sys
from pathlib import Path

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Refusal(Exception):
    pass


class Generation(Extension):
    """{% generation %}…{% endgeneration %} prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment(now):
    def refuse(message):
        raise Refusal(message)

    result = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                           extensions=[Generation, "jinja2.ext.loopcontrols"])
    result.filters["tojson"] = to_json
    result.globals["raise_exception"] = refuse
    result.globals["strftime_now"] = datetime.datetime.fromisoformat(now).strftime
    return result


def render(file, case):
    for key in ("expected", "error", "error_type"):
        case.pop(key, None)
    variables = {"documents": None, **file["special_tokens"],
                 **{key: case[key] for key in ("messages", "tools", "add_generation_prompt")}, **case["extra"]}
    try:
        case["expected"] = environment(file["now"]).from_string(file["template"]).render(**variables)
    except Refusal as error:
        case["error"], case["error_type"] = str(error), "raise_exception"
    except Exception as error:  # whatever Python or Jinja raise is the expectation
        case["error"], case["error_type"] = str(error), type(error).__name__


for path in sorted(Path(sys.argv[1]).glob("*.json")):
    content = json.loads(path.read_text())
    for case in content["cases"]:
        render(content, case)
    lines = [to_json(case) for case in content.pop("cases")]
    path.write_text(to_json(content)[:-1] + ', "cases": [\n' + ",\n".join(lines) + "\n]}\n")
