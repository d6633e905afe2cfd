#!/bin/sh
[ $# = 2 ] || exit 1
echo $(($1 + $2))
