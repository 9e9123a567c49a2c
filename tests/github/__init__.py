"""A rehearsal on a real GitHub, or on the local one where no account is given."""
