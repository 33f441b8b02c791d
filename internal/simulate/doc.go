// Package simulate has the command `poold simulate`, which replays demand against the policy of
// internal/refill/policy, in virtual time and without a provider. simulate.go runs one simulation,
// compare.go runs several side by side and plots them, recorded.go reads the requests that a
// running daemon counted, and verdict.go computes the costs and the sentence at the end of the
// output.
package simulate
