#!/bin/sh
# Starts the program BROWSER as one that leaves the processor to the server, which other tests call.
exec nice -n 10 "$BROWSER" "$@"
