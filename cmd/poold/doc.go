// Command poold keeps pools of CAPTCHA tokens that a solving service solved
// ahead of time, and hands them out in milliseconds.
//
// main calls run, which end-to-end tests call too. Most sub-commands have
// a file of their own; client.go holds token, healthcheck and what the commands share
// that ask a running daemon. history.go shows what that knows of orders that ended.
// simulate.go is one simulated run, compare.go several side by side, verdict.go what a run
// costs, and what the other way of refilling would give. The flags of solve are the fields
// of its request, from internal/targets.
//
// The daemon is the command serve. serve.go wires the packages together and is the
// place to see who gives what to whom; lifecycle.go starts and stops it in stages;
// reload.go puts a changed file in force. listen.go opens its port, redis.go its Redis
// and dedup.go what keeps the claims of shared solves; providers.go makes the clients of
// the file's providers, simulated.go runs the one that is built in.
package main
