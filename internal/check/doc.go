// Package check implements the command `poold check`, which validates pools.yaml. spending.go
// describes each target and its daily cost. diff.go compares the file with the configuration of a running daemon. live.go tries Redis, the
// stores and the providers' keys. The command buys nothing and changes no stock.
package check
