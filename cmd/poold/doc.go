// Command poold keeps pools of CAPTCHA tokens that a solving service solved ahead of time,
// and hands them out in milliseconds.
//
// main.go collects the commands: the client commands of internal/cli, the commands of
// internal/check and internal/simulate, and the two commands of this package, serve and history
// init. Tests call the function run, like main.
//
// serve.go wires the packages of the daemon together and shows the dependencies between its parts.
// lifecycle.go starts and stops the daemon in stages, and reload.go applies a changed file.
// listen.go opens the port, redis.go connects to Redis, dedup.go opens the claims of shared solves,
// and historystore.go opens the history. firstlook.go limits how long the start waits for these
// stores. providers.go makes the clients of the providers in the file, and simulated.go runs the
// built-in provider.
package main
