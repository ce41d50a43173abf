"""Words for what a caller got wrong in the call itself."""

from __future__ import annotations

import difflib

_KEYWORDS = {
    "attention": """bias mask alibi sinks q_starts kv_starts kv_lengths page_table seed causal window
        first_keys offset softcap dropout_p scale max_q_len max_kv_len layout return_lse batch_invariant tf32
        kernel out out_dtype""",
    "explain": "problem device kernel",
    "Plan": "problem device kernel config",
    "merge": "first second layout out",
}
_KEYWORDS["attention_backward"] = (
    _KEYWORDS["attention"] + " lse dout dlse dq dk dv dbias dsinks dalibi"
)


def unexpected_keyword(function: str, keyword: str) -> str:
    known = _KEYWORDS[function].split()
    near = difflib.get_close_matches(keyword, known, n=1)
    rest = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(known)}"
    return f"rapt.{function}() got an unexpected keyword argument '{keyword}'; {rest}"
