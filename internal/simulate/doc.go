// Package simulate implements the command `poold simulate`. This command replays demand against the
// policy of internal/refill/policy, in virtual time and without a provider. The file simulate.go
// has the flags and the output, compare.go compares several simulations.
package simulate
