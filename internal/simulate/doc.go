// Package simulate is the command `poold simulate`: it replays demand against the refill policy of
// internal/refill/policy, in virtual time and without a provider. simulate.go runs one simulation,
// compare.go runs several side by side and plots them, recorded.go reads the demand that a running daemon
// counted, and verdict.go computes costs and the closing sentence.
package simulate
