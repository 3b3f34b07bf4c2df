"""What ``doctor`` judges, one module a section: from what was read of one host to findings."""
