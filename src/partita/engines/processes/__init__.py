"""Other processes: started, watched and ended in one way, and their answers and errors brought back.

Commands (``child``) talk over pipes with a module that serves them (``serving``); some are kept for the next who asks
(``kept``). Forks (``forks``) share what this process has made, and leave an answer in a file. Pools (``pool``) are
joblib's. An error of the work is raised here as it was there (``replies``); a process that ends without an answer is a
``ProcessError`` that says how, and is never taken for an answer.
"""
