// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// The ports of addresses that name none.
const (
	defaultPort         = "6379"
	defaultSentinelPort = "26379"
)

// Address is an address of a server as people write it: "host", "host:port", "unix//path", or a URL such as
// "rediss://user:password@host:port/database".
type Address struct {
	// Dial is what [Options].Addresses takes: "host:port", or the path of a Unix socket, which begins with '/'. The
	// port is empty if none was given; [Address.WithPort] fills it in.
	Dial string
	// TLS says that the URL is one for TLS.
	TLS bool
	// Username and Password are those of the URL.
	Username, Password string
	// Database is that of the URL; -1 if it names none.
	Database int
}

// errURL is all that is said about a URL that cannot be read: it may hold a password.
var errURL = errors.New("it is no URL of the form redis://user:password@host:port/database; in a user name and in " +
	"a password, the characters / ? # @ : and % must be written %2F %3F %23 %40 %3A and %25")

// ParseAddress parses an address. No error repeats it, because it may hold a password.
func ParseAddress(text string) (Address, error) {
	a := Address{Database: -1}
	if path, ok := strings.CutPrefix(text, "unix/"); ok && strings.HasPrefix(path, "/") {
		text = path
	}
	if strings.HasPrefix(text, "/") {
		a.Dial = text
		return a, nil
	}
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		dial, err := hostPort(text)
		a.Dial = dial
		return a, err
	}
	switch scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		a.TLS = true
	case "unix":
		return a, a.parseSocket(rest)
	default:
		return a, errors.New("its scheme is none of redis, rediss, valkey, valkeys and unix")
	}
	return a, a.parseURL(text)
}

// parseSocket parses what follows unix:// in a URL.
func (a *Address) parseSocket(rest string) error {
	if !strings.HasPrefix(rest, "/") || strings.ContainsAny(rest, "?#") {
		return errors.New("it is no URL of the form unix:///path; username, password and database are options")
	}
	a.Dial = rest
	return nil
}

// parseURL parses a URL that names a host.
func (a *Address) parseURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Opaque != "" || parsed.Fragment != "" || strings.Contains(text, "#") {
		return errURL // the error of url.Parse repeats the URL
	}
	if parsed.RawQuery != "" || parsed.ForceQuery {
		return errors.New("it has parameters after '?', which are not known here; use the options instead")
	}
	if a.Dial, err = hostPort(parsed.Host); err != nil {
		return err
	}
	a.Username = parsed.User.Username()
	a.Password, _ = parsed.User.Password()
	if number := strings.Trim(parsed.Path, "/"); number != "" {
		if a.Database, err = strconv.Atoi(number); err != nil || a.Database < 0 {
			return errors.New("what follows the host is not the number of a database, such as /0")
		}
	}
	return nil
}

// hostPort checks "host" or "host:port" and returns "host:port", where the port may be empty.
func hostPort(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		// There is no port, or the text is an IPv6 address without brackets.
		host, port = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"), ""
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", errors.New("it is not of the form host:port")
		}
	}
	if host == "" {
		return "", errors.New("it has no host")
	}
	if strings.ContainsAny(host, "/@?#[]{} \t") {
		return "", errors.New("it is not of the form host:port")
	}
	if number, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || number == 0) {
		return "", errors.New("its port is not a number from 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}

// IsSocket reports whether the address is that of a Unix socket.
func (a Address) IsSocket() bool { return strings.HasPrefix(a.Dial, "/") }

// WithPort returns [Address.Dial] with the usual port of a server, or of a sentinel, unless the address names one.
func (a Address) WithPort(topology Topology) string {
	host, ok := strings.CutSuffix(a.Dial, ":")
	switch {
	case !ok || a.IsSocket():
		return a.Dial
	case topology == Sentinel:
		return host + ":" + defaultSentinelPort
	}
	return host + ":" + defaultPort
}
