# What a program's process does with the program, after it has been locked in.
import ast
import atexit
import builtins
import linecache
import os
import sys
import threading
import traceback
import types

NAME = "main.py"


def run_program(source, leave=os._exit):  # a program may replace the name
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    sys.argv = [NAME]
    lines = source.splitlines(keepends=True)
    linecache.cache[NAME] = (len(source), None, lines, NAME)
    status = guarded(lambda: execute(source, module.__dict__))
    late = guarded(finish)
    leave((status or late) & 0xFF)


# The value of a last expression is shown as an interactive interpreter would show it.
def execute(source, names):
    tree = compile(source, NAME, "exec", ast.PyCF_ONLY_AST)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = compile(ast.Expression(tree.body.pop().value), NAME, "eval")
    exec(compile(tree, NAME, "exec"), names)
    if last is not None:
        sys.displayhook(eval(last, names))


def finish():
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()


def guarded(body):
    try:
        body()
        return 0
    except SystemExit as leave:
        return exit_status(leave.code)
    except BaseException as error:
        report(error)
        return 1


def exit_status(code):
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def report(error):
    sys.stdout.flush()
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == HERE:
        trace = trace.tb_next
    if trace is None and not isinstance(error, SyntaxError):
        trace = error.__traceback__
    traceback.print_exception(type(error), error, trace)
    sys.stderr.flush()
