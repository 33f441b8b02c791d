// Package check implements the command `poold check`, which validates pools.yaml. spending.go
// computes the maximum purchases of the file. The daemon also logs this maximum when it starts.
// diff.go compares the file with the configuration of a running daemon. live.go tries Redis, the
// stores and the providers' keys. The command buys nothing and changes no stock.
package check
