// Command poold keeps pools of CAPTCHA tokens that a solving service solved
// ahead of time, and hands them out in milliseconds.
//
// main calls run, which end-to-end tests call too. commands.go builds the tree of commands
// anew for each run and says what is wrong with a command line; help.go, completion.go and
// man.go make texts of the tree. Each command has a file of its own, named after it, whose
// newX gives its flags and help; the library behind it, cobra, is used for nothing else.
//
// client.go asks a running daemon. change.go is what pause, resume, flush and warm share;
// reloadcommand.go is the command reload. statustable.go puts the status into words and
// watch.go follows it; terminal.go and screen.go know what a terminal takes. history.go
// asks what is known of orders, historytables.go and historykey.go show it. simulate.go is
// one simulated run, compare.go several side by side, verdict.go what a run costs, and what
// the other way of refilling would give. The flags of solve are the fields of its request,
// from internal/targets.
//
// The daemon is the command serve. serve.go wires the packages together and is the
// place to see who gives what to whom; lifecycle.go starts and stops it in stages;
// reload.go puts a changed file in force. listen.go opens its port, redis.go its Redis
// and dedup.go what keeps the claims of shared solves; providers.go makes the clients of
// the file's providers, simulated.go runs the one that is built in.
package main
