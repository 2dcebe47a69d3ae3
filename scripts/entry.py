"""Runs kafkafs from a checkout, for `scripts/kafkafs`, which starts Python with `-S`.

So this is the first code that Python runs, before `site` and the packages that it brings: an interrupt ends the process
from here on without a traceback. The processes that `verify` starts run this file too, up to its last condition.
"""

import _signal  # which is built in, and so is there at once
import sys

if __name__ == "__main__" and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import site

site.main()

if __name__ == "__main__":
    from kafkafs.__main__ import main

    sys.argv[0] = "kafkafs"
    main()
