"""Stacks of processes: parsed, merged over all ranks, and asked who stands elsewhere. Pure; standard library only.

``pyspy``, ``faulthandler`` and ``native`` read what was taken, ``flight`` and ``ras`` what PyTorch and NCCL keep about
collectives; ``offline`` recognises any of them in files. ``waits`` knows what a frame or a kernel function means,
``desync`` compares what ranks called, ``odd`` judges, ``merge`` groups, ``tree`` draws, ``evidence`` speaks to the
verdict.
"""
