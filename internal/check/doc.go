// Package check implements the command `poold check`, which validates pools.yaml. check.go prints the
// problems and what each target costs a day, and live.go tries Redis, the stores and the providers' keys.
// The command buys nothing and changes no stock.
package check
