// Package check is the command `poold check`: it validates pools.yaml, computes what the file
// can buy at most (spending.go, which the start of the daemon logs too), compares it with what
// a running daemon applied (diff.go), and tries Redis, the stores and the providers' keys
// (live.go). It buys and changes nothing.
package check
