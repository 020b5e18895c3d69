/* Memory that runs out on demand. For tests called test_*_memory.c, which are linked so that the code they
 * test allocates through memory.c (the code in the static library and in the test, not that in other
 * libraries). */
#pragma once

extern long fail_at; /* the how-many-th allocation from now fails; 0: none */
