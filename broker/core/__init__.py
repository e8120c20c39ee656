"""Pure rules: no I/O, no clock (time is an argument), no logging."""
