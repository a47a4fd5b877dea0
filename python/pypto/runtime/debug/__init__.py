"""Runs a compiled directory again, by itself: `replay` from the command line, `run_script_writer` as a script in it."""
