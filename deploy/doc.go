// Package deploy has the files with which operators deploy and watch poold, beside the tests that
// prove these files. Each test runs the program that the file is for. The containers and the unit run as
// processes in sandboxes of bubblewrap, which need root but no container engine and no systemd.
//
//	prometheus/      alert and recording rules, their stories, and a configuration that loads them
//	grafana/         a dashboard
//	systemd/         a unit of systemd, and a pools.yaml that reads its credentials
//	compose.yaml     poold and Redis as containers on one machine
//	kubernetes.yaml  two replicas on Kubernetes
//	config/          the pools.yaml of compose.yaml and kubernetes.yaml
//	nfpm.yaml        the Debian package, which scripts/release builds
//	deb/             the maintainers' scripts of that package
package deploy
