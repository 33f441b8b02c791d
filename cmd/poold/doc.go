// Command poold keeps pools of CAPTCHA tokens that a solving service solved ahead of time,
// and hands them out in milliseconds.
//
// main.go puts the commands together: the client commands of internal/cli, internal/check,
// internal/simulate, and the two of this package, serve and history init. Tests call run, as
// main does.
//
// serve.go wires the packages of the daemon together and shows which part depends on which.
// lifecycle.go starts and stops the daemon in stages, and reload.go applies a changed file.
// listen.go opens the port, redis.go Redis, dedup.go the claims of shared solves and
// historystore.go the history; firstlook.go bounds how long the start waits for these stores.
// providers.go makes the clients of the file's providers, and simulated.go runs the built-in one.
package main
