# What a value is in builtin types, whatever its class says of itself. Marks has ~ where a
# class is another, or one within is equal to all, ? where it is none of theirs. A value that has no text is like no other.
PLAIN = '''
def @plain(v, marks, inner=False):
    base = next((b for b in (int, float, str, bytes, list, tuple, dict, set, frozenset, type(None)) if issubclass(type(v), b)), None)
    if base is None and @exact(v): return @exact(v)
    if type(v) not in (base, bool): marks.add("~" if base or inner and @is_any(v) else "?")
    if base is None: return type(v).__name__ + @text(v)
    if base is float: return int.__repr__(float.__int__(v)) if float.is_integer(v) else float.__repr__(v)
    if base in (int, str, bytes, type(None)): return base.__repr__(v)
    if base is dict: return "{" + ",".join(sorted(@plain(k, marks, True) + ":" + @plain(x, marks, True) for k, x in @content(v, dict.items(v), "items"))) + "}"
    parts = [@plain(x, marks, True) for x in @content(v, base.__iter__(v), "__iter__")]
    return base.__name__.replace("frozen", "") + "(" + ",".join(sorted(parts) if base in (set, frozenset) else parts) + ")"
def @content(v, own, method):
    """What is in a value: what its class gives where the builtin type below it holds nothing, as of a UserList that is a list as well."""
    import itertools
    found = list(own)
    if found or type(v) in (list, tuple, dict, set, frozenset): return found
    try: return list(itertools.islice(getattr(v, method)(), 1 << 12))
    except Exception: return []
def @is_any(v):
    """Whether a value is equal to what nothing else is equal to."""
    try: return (v == object()) is True
    except Exception: return False
def @exact(v):
    """How a decimal number or a fraction is written as the number that it is equal to; "" for others."""
    import decimal, fractions
    is_decimal = type(v) is decimal.Decimal and v.is_finite() and abs(v.adjusted()) < 300
    if type(v) is not fractions.Fraction and not is_decimal: return ""
    n = fractions.Fraction(v)
    return int.__repr__(n.numerator) if n.denominator == 1 else float.__repr__(float(n)) if fractions.Fraction(float(n)) == n else str(n)
def @text(v):
    """How a value is written whose class is the language's, or pytest's, and no builtin type."""
    import datetime, decimal, sys
    known = (datetime.date, datetime.time, datetime.timedelta, decimal.Decimal)
    approx = getattr(sys.modules.get("_pytest.python_api"), "ApproxBase", decimal.Decimal)
    return repr(v) if type(v) in known + (datetime.datetime,) or issubclass(type(v), approx) else ""
def @step_of(v, width, start):
    """The middle of the step in which a number is; what is none as it is."""
    v = getattr(v, "expected", v)
    kind = next((b for b in (int, float) if issubclass(type(v), b)), None)
    try: return start + (((kind.__float__ if kind else float)(v) - start) // width + 0.5) * width
    except (TypeError, ValueError, OverflowError): return v
def @note(v, limit=1 << 16):
    marks = set()
    try: text = @plain(v, marks)
    except (RecursionError, ValueError, OverflowError): return "!"
    return max(marks, default="=", key="~?".find) + text[:limit].encode("unicode_escape").decode()
'''
note = {}
exec(PLAIN.replace("@", ""), note)
note, step_of = note["note"], note["step_of"]
