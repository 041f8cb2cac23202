"""Operations that may never come back: each in a process of its own, which can be left behind."""
