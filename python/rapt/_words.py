"""Words for what a caller got wrong in the call itself."""

from __future__ import annotations

import difflib

_POSITIONS = {
    "attention": "q k v", "attention_backward": "q k v", "plan": "q k v", "problem": "q k v",
    "Plan.run": "q k v", "explain": "problem", "Plan": "problem", "merge": "first second",
}  # fmt: skip
_TENSORS = "bias mask alibi sinks q_starts kv_starts kv_lengths page_table seed"
_BACKWARD = "lse dout dlse dq dk dv dbias dsinks dalibi"
_KEYWORDS = {
    "attention": f"""{_TENSORS} causal window first_keys offset softcap dropout dropout_p scale
        max_q_len max_kv_len layout return_lse batch_invariant row_invariant tf32 kernel out out_dtype""",
    "Plan.run": f"{_TENSORS} layout out",
    "explain": "problem device kernel",
    "Plan": "problem device kernel config",
    "merge": "first second layout out",
}
_KEYWORDS["attention_backward"] = f"{_KEYWORDS['attention']} {_BACKWARD}"
_KEYWORDS["plan"] = _KEYWORDS["problem"] = _KEYWORDS["attention_backward"]

# What others call it.
_ELSEWHERE = {
    "softmax_scale": "scale", "is_causal": "causal", "attn_mask": "mask", "window_size": "window",
    "alibi_slopes": "alibi", "s_aux": "sinks", "block_table": "page_table",
    "key_value_seq_lengths": "kv_lengths", "cache_seqlens": "kv_lengths",
}  # fmt: skip

# Where an argument of backward has no place in a call.
_INSTEAD = {
    "attention": "call rapt.attention_backward()",
    "plan": "give dout, too",
    "problem": "give dout, too",
    "Plan.run": "the plan is of forward; make one of backward, rapt.plan(..., dout=dout)",
}


def wrong_positions(function: str, there: list[bool], more: int) -> str:
    """`there`: which of the arguments that a function takes by position are given."""
    if function not in _POSITIONS:
        return f"rapt.{function}() takes no arguments"
    names = _POSITIONS[function].split()
    count = f"{len(names)} argument{'s' if len(names) > 1 else ''}"
    if more:
        return (
            f"rapt.{function}() takes {count} by position ({', '.join(names)}), not "
            f"{len(names) + more}; name the others"
        )
    missing = [name for name, given in zip(names, there) if not given]
    verb = "are" if len(missing) > 1 else "is"
    return f"rapt.{function}() takes {', '.join(names)}; {', '.join(missing)} {verb} missing or None"


def unexpected_keyword(function: str, keyword: str) -> str:
    if function not in _KEYWORDS:
        return f"rapt.{function}() takes no arguments; it got {keyword!r}"
    known = _KEYWORDS[function].split()
    near = difflib.get_close_matches(keyword, known, n=1)
    if _ELSEWHERE.get(keyword) in known:
        near = [_ELSEWHERE[keyword]]
    if keyword in _POSITIONS[function].split():
        return (
            f"rapt.{function}() got {keyword} twice, by position and as a keyword argument; give it "
            "once"
        )
    if keyword in _BACKWARD.split() and function in _INSTEAD:
        rest = f"it is backward's: {_INSTEAD[function]}"
    elif function == "Plan.run" and keyword in _KEYWORDS["attention"].split():
        rest = "it is a part of the plan: make another plan with it"
    else:
        rest = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
    return f"rapt.{function}() got an unexpected keyword argument {keyword!r}; {rest}"
