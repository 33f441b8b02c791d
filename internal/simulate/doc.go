// Package simulate implements the command `poold simulate`. This command replays demand against the
// policy of internal/refill/policy, in virtual time and without a provider. The file simulate.go
// runs one simulation, and compare.go runs and plots several. The file verdict.go computes the costs
// and the sentence at the end of the output.
package simulate
