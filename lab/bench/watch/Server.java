import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.concurrent.Executors;

/** The server of server.go in Java: Server PORT VALUES. */
public class Server {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        HashMap<Integer, byte[]> values = new HashMap<>(2 * count);
        for (int key = 0; key < count; key++) {
            values.put(key, String.format("%08d", key).repeat(128).getBytes());
        }
        HttpServer server =
            HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 0);
        server.setExecutor(Executors.newFixedThreadPool(2));
        server.createContext("/", exchange -> {
            byte[] value = values.get(Integer.parseInt(exchange.getRequestURI().getPath().substring(1)));
            exchange.sendResponseHeaders(value == null ? 404 : 200, value == null ? -1 : value.length);
            if (value != null) exchange.getResponseBody().write(value);
            exchange.close();
        });
        server.start();
        System.out.println("ready");
    }
}
