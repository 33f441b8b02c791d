// Command poold buys CAPTCHA tokens from solving services ahead of time and keeps them in pools. It
// hands the tokens out in milliseconds.
//
// main.go collects the commands: serve, history init, and those in internal/cli, internal/check and
// internal/simulate.
//
// serve.go wires the packages of the daemon together in one function, and lifecycle.go starts and stops
// them in stages. reload.go applies a changed file. redis.go and stores.go open Redis and the stores of
// the history and of shared solves, and providers.go creates the clients of the solving services.
//
// Of the tests, read e2e_test.go first.
package main
