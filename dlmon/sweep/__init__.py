"""Many runs, one after another."""
