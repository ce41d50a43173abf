#!/bin/sh
# Stands before nvcc where it compiles a file (CMake calls that a compiler launcher): what ptxas says
# of each kernel's registers, spills and shared memory is kept beside the object, as OBJECT.resources,
# for tests/cuda/test_resources.py. Everything else nvcc says is passed on.
object=
previous=
for argument; do
  if [ "$previous" = -o ]; then object=$argument; fi
  previous=$argument
done
"$@" -res-usage 2>"$object.resources"
status=$?
grep -vE '^ptxas info +: ([0-9]+ bytes gmem|Compiling|Function properties|Used|Compile time)|^ +[0-9]+ bytes stack frame' \
  "$object.resources" >&2
exit $status
