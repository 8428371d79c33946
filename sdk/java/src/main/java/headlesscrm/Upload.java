package headlesscrm;

/** A file to upload. */
public record Upload(String name, String contentType, byte[] content) {}
