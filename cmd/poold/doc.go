// Command poold buys CAPTCHA tokens from solving services ahead of time and keeps them in pools. It
// hands the tokens out in milliseconds.
//
// The file main.go collects the commands: the client commands of internal/cli, the commands of
// internal/check and internal/simulate, and the two commands of this package, serve and history
// init. Both main and the tests call the function run.
//
// The file serve.go wires the packages of the daemon together and shows the dependencies between
// its parts. The file lifecycle.go starts and stops the daemon in stages, and reload.go applies a
// changed file. The file listen.go opens the port, redis.go connects to Redis, dedup.go opens the
// claims of shared solves, and historystore.go opens the history. The file firstlook.go limits how
// long the start waits for these stores. The file providers.go creates the clients of the providers
// in the configuration file, and simulated.go runs the built-in provider.
package main
