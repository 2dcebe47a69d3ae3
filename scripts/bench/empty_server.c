/* A file system in C on libfuse's low-level interface, single-threaded, to compare a mount with: every name that is a
 * number is a file of a few bytes, made up in place.
 *
 *     empty_server MOUNTPOINT      prints a line once it is mounted; SIGTERM ends it
 */
#define FUSE_USE_VERSION 35
#include <errno.h>
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char CONTENT[] = "{\"id\":12345678,\"u\":\"0123abcd\",\"m\":\"some words as values have them\"}";
static const double TIMEOUT_S = 300;
enum { CONTENT_BYTES = sizeof CONTENT - 1 };

static struct stat attributes(fuse_ino_t inode) {
    struct stat found = {.st_ino = inode, .st_nlink = 1, .st_mode = S_IFDIR | 0755};
    if (inode != FUSE_ROOT_ID) {
        found.st_mode = S_IFREG | 0644;
        found.st_size = CONTENT_BYTES;
    }
    return found;
}

static void lookup(fuse_req_t request, fuse_ino_t parent, const char *name) {
    char *end;
    struct fuse_entry_param entry = {.attr_timeout = TIMEOUT_S, .entry_timeout = TIMEOUT_S};
    entry.ino = strtoull(name, &end, 10) + 2;
    entry.attr = attributes(entry.ino);
    if (*end || end == name)
        fuse_reply_err(request, ENOENT);
    else
        fuse_reply_entry(request, &entry);
    (void)parent;
}

static void getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    struct stat found = attributes(inode);
    fuse_reply_attr(request, &found, TIMEOUT_S);
    (void)file;
}

static void open_file(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    file->fh = inode;
    file->keep_cache = 1;
    fuse_reply_open(request, file);
}

static void read_file(fuse_req_t request, fuse_ino_t inode, size_t size, off_t at, struct fuse_file_info *file) {
    size_t rest = at < CONTENT_BYTES ? CONTENT_BYTES - at : 0;
    fuse_reply_buf(request, CONTENT + CONTENT_BYTES - rest, size < rest ? size : rest);
    (void)inode, (void)file;
}

static void done(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file) {
    fuse_reply_err(request, 0);
    (void)inode, (void)file;
}

static const struct fuse_lowlevel_ops handlers = {
    .lookup = lookup, .getattr = getattr, .open = open_file, .read = read_file, .flush = done, .release = done};

int main(int count, char **arguments) {
    if (count != 2) return 2;
    struct fuse_args options = FUSE_ARGS_INIT(0, NULL);
    fuse_opt_add_arg(&options, arguments[0]);
    fuse_opt_add_arg(&options, "-ofsname=empty,default_permissions");
    struct fuse_session *session = fuse_session_new(&options, &handlers, sizeof handlers, NULL);
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, arguments[1])) return 1;
    puts("mounted");
    fflush(stdout);
    fuse_session_loop(session);
    fuse_session_unmount(session);
    fuse_session_destroy(session);
    return 0;
}
