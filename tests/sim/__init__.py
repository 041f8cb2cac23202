"""A simulated container runtime: a real gRPC server that speaks CRI v1 and runs nothing.

    python -m tests.sim --socket /tmp/sim/sim.sock

It keeps pods, containers and images as a runtime does, writes logs in the CRI format, answers exec,
attach and port-forward, counts statistics, sends events, and can be told to be slow, to fail, to
hang, to answer garbage and to forget events (``control.py``). ``fixtures.py`` starts it for a test.

Programs
--------
What a container does is a *program*. The first of these that is there gives it:

1. the annotation ``sim/program`` of the container, or of its pod ``sim/program.<container name>``
   or ``sim/program``: the text of a program;
2. ``command`` and ``args``: a command, or a program after ``sh -c``;
3. the image: ``sim/<command>:<argument>`` (``sim/exit:3``, ``sim/crash:0.5``, ``sim/flood:100``),
   or what the catalogue in ``images.py`` says of it (nginx listens on port 80);
4. otherwise ``run``.

The language is a small part of the shell, so that the command of an ordinary pod means what it
says: commands with ``;``, ``&&``, ``||``, new lines, ``'..'``, ``".."``, ``$NAME``, ``> file``,
``>> file``, ``>&2``, ``while COMMAND; do ...; done``. Commands of the shell: ``: true false exit
sleep dd echo printf cat ls touch rm mkdir test [ env printenv hostname date id whoami pwd uname
pgrep ps kill trap top tail sh``. Commands of the simulator:

    run                       run until it is told to end
    crash [SECONDS]           end with code 1 after SECONDS (0.1): restarted, a crash loop
    oom                       be killed for memory: code 137, reason OOMKilled
    ignore-term               have no ear for SIGTERM: only the end of the grace period stops it
    on-term CODE [SECONDS]    at SIGTERM, end with CODE after SECONDS
    flood [RATE] [TEXT]       print RATE lines (100) per second, without end
    listen PORT               answer HTTP 200 on the pod's address from here on
    fail-create [TEXT]        CreateContainer fails with TEXT
    fail-start [TEXT]         StartContainer fails with TEXT; the container is Exited, code 128
    slow-start SECONDS        StartContainer takes SECONDS

``trap '' TERM`` and ``trap 'exit 3' TERM`` work too. A command that nobody knows, and a script that
says more than this language, runs until it is stopped when it is a container's own; given to exec
it is "not found" (127) or bad syntax (2). Files that a program writes live in memory for that
container alone, and are seen by exec; paths under a mount are the real files of the host.

Images
------
Every reference can be pulled, in 0.05 s, and has a size made from its name. ``sim/private:*`` needs
credentials, ``sim/pull-error:*`` is not found; ``SimControl.image`` sets sizes, times and errors.

What is not simulated
---------------------
No process runs in a container, and no namespace, cgroup, mount, capability, seccomp, AppArmor or
SELinux setting is applied. A pod's address is one of 127.0.0.0/8, so pods are reached only through
``listen``, and only from this host. Pipes, variables that are set, functions and ``if`` are not in
the language. SIGTERM ends a program that did not ask to handle it (a real init process ignores it).
A terminal's size is taken and forgotten. A checkpoint holds no memory. ``CRITEST.md`` says which
parts of the published validation suite hold.
"""
