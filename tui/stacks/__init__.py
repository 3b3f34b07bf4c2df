"""Stacks of processes: parsed, merged over all ranks, and asked who stands elsewhere. Pure; standard library only.

``pyspy`` and ``faulthandler`` read what was taken, ``waits`` knows what a frame or a kernel function means, ``odd``
judges, ``merge`` groups, ``tree`` draws.
"""
