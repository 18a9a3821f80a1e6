// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

// curl stands in for the program of that name on machines without it. It knows the flags of the pages' commands: -s
// -S -i -D -o -X -H and -d.
func curl(args []string, stdout io.Writer) error {
	call := struct {
		method, url, body, head, out string
		include                      bool
		header                       http.Header
	}{header: http.Header{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") {
			call.url = arg
			continue
		}
		if strings.Trim(arg[1:], "sSi") == "" {
			call.include = call.include || strings.Contains(arg, "i")
			continue
		}
		if i++; i == len(args) {
			return fmt.Errorf("curl: %s needs a value", arg)
		}
		switch value := args[i]; arg {
		case "-X":
			call.method = value
		case "-d":
			if call.body != "" {
				value = "&" + value
			}
			call.body += value
		case "-D":
			call.head = value
		case "-o":
			call.out = value
		case "-H":
			name, text, ok := strings.Cut(value, ":")
			if !ok {
				return fmt.Errorf("curl: %q is no header", value)
			}
			call.header.Add(name, strings.TrimSpace(text))
		default:
			return fmt.Errorf("curl: unknown flag %s", arg)
		}
	}
	if call.method == "" {
		call.method = http.MethodGet
		if call.body != "" {
			call.method = http.MethodPost
		}
	}
	if !strings.Contains(call.url, "://") {
		call.url = "http://" + call.url
	}
	request, err := http.NewRequest(call.method, call.url, strings.NewReader(call.body))
	if err != nil {
		return err
	}
	request.Header = call.header
	if call.body != "" && call.header.Get("Content-Type") == "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableCompression: true}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "%s %s\r\n", response.Proto, response.Status)
	// Caddy writes the fields sorted by name, and the date after them.
	for _, name := range slices.SortedFunc(maps.Keys(response.Header), dateLast) {
		for _, value := range response.Header[name] {
			fmt.Fprintf(&head, "%s: %s\r\n", name, value)
		}
	}
	head.WriteString("\r\n")
	if call.include {
		body = append(head.Bytes(), body...)
	}
	return errors.Join(put(call.head, head.Bytes(), stdout), put(orStdout(call.out), body, stdout))
}

// dateLast sorts names of header fields, with Date at the end.
func dateLast(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "Date":
		return 1
	case b == "Date":
		return -1
	}
	return strings.Compare(a, b)
}

// put writes to a file. "-" means stdout, and an empty name discards the data.
func put(name string, data []byte, stdout io.Writer) error {
	switch name {
	case "", os.DevNull:
		return nil
	case "-":
		_, err := stdout.Write(data)
		return err
	}
	return os.WriteFile(name, data, 0o600)
}

func orStdout(name string) string {
	if name == "" {
		return "-"
	}
	return name
}
