"""Show pods as kubectl does: get pods [name ...] [-n namespace | -A] [-o wide|json|yaml|name].

Without a name, those of namespace "default", of another one (-n) or of all (-A). A name is looked
for in every namespace, unless one is given; it may also be namespace/name, a uid, or the beginning
of one of these. -o json and yaml print v1 Pods with their status: one for one name, else a List.
"""

from __future__ import annotations

import argparse
import time

from kubeletctl import podlines, pods
from kubeletctl.context import Context
from kubeletctl.errors import NOT_THERE, OK, CtlError
from kubeletctl.fields import obj, objs, text
from kubeletctl.output import Format, emit
from kubeletctl.pods import PodView
from kubeletctl.screen import Cell, Column, table
from kubeletctl.words import plain

OWN_OUTPUT = True
RESOURCES = ("pods", "pod", "po")
FORMS = ("text", "wide", "json", "yaml", "name")
DEFAULT_NAMESPACE = "default"
COLUMNS = (
    Column("NAME"),
    Column("READY"),
    Column("STATUS"),
    Column("RESTARTS"),
    Column("AGE"),
)
WIDE = (
    Column("IP", keep=8),
    Column("NODE", keep=5),
    Column("NOMINATED NODE", keep=1),
    Column("READINESS GATES", keep=1),
)
NONE = "<none>"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add what to show and how."""
    parser.add_argument("resource", help="pods, pod or po; or pod/<name>")
    parser.add_argument("names", nargs="*", metavar="name", help="which of them")
    parser.add_argument("-n", "--namespace", metavar="NAME", default="", help="the namespace")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all of them")
    parser.add_argument(
        "-o", "--output", dest="form", choices=FORMS, default="", help="(default text)"
    )


def run(options: argparse.Namespace, context: Context) -> int:
    """Print the pods."""
    names = named(options.resource, options.names)
    if options.all_namespaces and (options.namespace or names):
        raise CtlError("-A stands alone: without a name and without -n", NOT_THERE)
    known = pods.load(context.run_dir)
    if names:
        shown = [pods.resolve(known, name, options.namespace) for name in names]
    else:
        shown = _of_namespace([one for one in known if not one.gone], options)
    form = options.form or context.output.value
    if form in {Format.JSON, Format.YAML}:
        single = len(names) == 1
        emit(pods.api_object(shown[0]) if single else pods.api_list(shown), Format(form))
    elif form == "name":
        print("".join(f"pod/{plain(one.name)}\n" for one in shown), end="")
    elif shown:
        _print_table(shown, context, wide=form == "wide", namespaces=options.all_namespaces)
    else:
        print(_nothing(known, options))
    return OK


def named(resource: str, names: list[str]) -> list[str]:
    """Return the names of pods on a command line that begins with a resource."""
    kind, slash, name = resource.partition("/")
    if kind not in RESOURCES:
        raise CtlError(f"There is no resource {kind!r} here; allowed are {', '.join(RESOURCES)}", 2)
    return [name, *names] if slash else list(names)


def _of_namespace(known: list[PodView], options: argparse.Namespace) -> list[PodView]:
    if options.all_namespaces:
        return known
    wanted = options.namespace or DEFAULT_NAMESPACE
    return [one for one in known if one.namespace == wanted]


def _nothing(known: list[PodView], options: argparse.Namespace) -> str:
    if options.all_namespaces:
        return "no pods"
    others = sorted({plain(one.namespace) for one in known if not one.gone})
    hint = f"; there are pods in {', '.join(others)} (-A shows all)" if others else ""
    return f"no pods in namespace {options.namespace or DEFAULT_NAMESPACE}{hint}"


def _print_table(shown: list[PodView], context: Context, *, wide: bool, namespaces: bool) -> None:
    now_ns = time.time_ns()
    columns = (*COLUMNS, *(WIDE if wide else ()))
    rows = [[*_cells(one, now_ns), *(_wide(one) if wide else ())] for one in shown]
    if namespaces:
        columns = (Column("NAMESPACE"), *columns)
        rows = [[Cell(one.namespace), *cells] for one, cells in zip(shown, rows, strict=True)]
    print("\n".join(table(context.screen, columns, rows)))


def _cells(one: PodView, now_ns: int) -> list[Cell]:
    found = one.summary
    return [
        Cell(one.name),
        Cell(f"{found.ready}/{found.total}"),
        podlines.word_cell(found),
        Cell(podlines.restarts(found, now_ns)),
        Cell(podlines.age_of(one, now_ns)),
    ]


def _wide(one: PodView) -> list[Cell]:
    return [
        Cell(text(one.status, "podIP") or NONE),
        Cell(text(obj(one.document, "spec"), "nodeName") or NONE),
        Cell(text(one.status, "nominatedNodeName") or NONE),
        Cell(_gates(one)),
    ]


def _gates(one: PodView) -> str:
    """Return how many of the readiness gates are open."""
    wanted = [text(gate, "conditionType") for gate in objs(obj(one.document, "spec"), _GATES)]
    true = {
        text(found, "type")
        for found in objs(one.status, "conditions")
        if text(found, "status") == "True"
    }
    return f"{sum(gate in true for gate in wanted)}/{len(wanted)}" if wanted else NONE


_GATES = "readinessGates"
