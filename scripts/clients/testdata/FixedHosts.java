// SPDX-FileCopyrightText: 2026 The caddy-moderation authors
// SPDX-License-Identifier: Apache-2.0

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import javax.net.ssl.SSLException;

/** A program with the hosts of Google and OpenAI in its code. With "untrusted" it must refuse the server. */
public class FixedHosts {
  private static final HttpClient client = HttpClient.newHttpClient();

  private static String post(String url, String body) throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url))
            .header("Content-Type", "application/json")
            .header("Authorization", "Bearer " + System.getenv("OPENAI_API_KEY"))
            .POST(HttpRequest.BodyPublishers.ofString(body))
            .build();
    return client.send(request, HttpResponse.BodyHandlers.ofString()).body();
  }

  private static String moderate(String text) throws Exception {
    return post("https://api.openai.com/v1/moderations", "{\"input\": \"" + text + "\"}");
  }

  private static void check(String what, boolean holds, String got) {
    System.out.println(holds ? "ok: " + what : "FAIL: " + what + ": got " + got);
  }

  public static void main(String[] args) throws Exception {
    if (args.length > 0) {
      try {
        check("HttpClient refuses the server", false, moderate("Hello."));
      } catch (SSLException err) {
        check("HttpClient refuses the server", true, "");
      }
      return;
    }
    String vile = moderate(System.getenv("VILE"));
    check("HttpClient sees a vile text flagged", vile.contains("\"flagged\":true"), vile);
    String fine = moderate(System.getenv("FINE"));
    check("HttpClient sees a fine text pass", fine.contains("\"flagged\":false"), fine);
  }
}
